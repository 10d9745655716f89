"""Of several numbers in a last sentence the question's words choose; where they do not decide, there is no answer."""

import pytest

from workings.answers.extract import extract


@pytest.mark.parametrize(("text", "question", "said"), [
    ("The cat weighs 4 kg and the dog weighs 11 kg.", "How much does the dog weigh?", "11 kg"),
    ("The cat weighs 4 kg and the dog weighs 11 kg.", "How much does the cat weigh?", "4 kg"),
    ("The cat weighs 4 kg and the dog weighs 11 kg.", "How much does the horse weigh?", ""),
    ("The cat weighs 4 kg and the dog weighs 11 kg.", "", ""),
    # What is supposed is not asked for.
    ("Ann is 8, and her brother Ben is 5.", "If Ann is 8 years old, how old is Ben?", "5"),
    # What is asked for is what is left, and not what there was.
    ("Mia had 20 pens and she has 6 pens left.", "How many pens are left?", "6"),
    ("Mia lost 14 pens and she has 6 left.", "How many pens does she have left?", "6"),
    # The last sentence that asks.
    ("The hen laid 9 eggs and the duck laid 2 eggs.", "How many eggs did the hen lay? And how many did the duck?", "2"),
    # A range is no two numbers, and neither guesses nor suppositions say one.
    ("There are between 10 and 12 pens left.", "How many pens are left?", ""),
    ("Maybe the cat weighs 4 kg and the dog weighs 11 kg.", "How much does the dog weigh?", ""),
    # A number that is said plainly stays.
    ("So the dog weighs 11 kg.", "How much does the cat weigh?", "11 kg"),
    # What the question chooses by its "more" or "left" goes before what is said plainly.
    ("Ann has 14 stamps, which is 8 more than Ben's 6.", "How many more stamps than Ben does Ann have?", "8"),
    ("Ann has 14 stamps, which is 8 more than Ben's 6.", "How many stamps does Ann have?", "14"),
    # A clause that leaves out what the one before it says counts the same.
    ("Of the pens Ann has 9 pens, Ben has 4, and Mia has 2.", "How many pens does Ben have?", "4"),
    ("Ann had $30, spent $12 and saved $18.", "How much did Ann save?", "$18"),
    ("So with $20 she can buy 10 pens.", "How much change does she get?", ""),
    # A percentage is no money, and money is no count of things.
    ("She got 15 percent off and paid 34 dollars.", "How much did she pay?", "34 dollars"),
    ("She spent $12 and got 6 pens.", "How many pens did she get?", "6"),
    # Two clauses that differ by their tense alone.
    ("Leo is 7 years old and will be 12 years old in 5 years.", "How old will Leo be in 5 years?", "12 years"),
    ("Leo is 7 years old now and will be 12 years old in 5 years.", "How old is Leo now?", "7 years"),
    # Names choose where several are told of, and what something is "for each" is one word.
    ("Ann's rope is 9 feet long and Ben's is 4 feet long.", "How long, in feet, is Ben's rope?", "4 feet"),
    ("7 people chose #3, 9 chose #5, and 4 chose #8.", "How many people chose runner #5?", "9"),
    ("So each cup costs $2 and each set costs $8.", "How much does each set of cups cost?", "$8"),
    ("Of the 80 cars 30 are red and 12 of those are new.", "How many new red cars are there?", "12"),
    ("Ivo read 210 pages, an average of 30 a day.", "On average, how many pages did he read a day?", "30"),
    # An entry of a list.
    ("Tom 10, Ann 20, Ben 35", "How many stickers does Ann have?", "20"),
    ("Here are the costs:\n- **Bread:** $4\n- **Milk:** $3", "How much does the bread cost?", "$4"),
    ("| Name | Points |\n|---|---|\n| Ann | 12 |\n| Ben | 15 |", "How many points does Ann have?", "12"),
    # What the clause before says is meant of the next name too.
    ("Lena sold 17 tickets in all, Max 22 and Ida 9.", "How many tickets did Ida sell?", "9"),
    ("Lena sold 17 tickets in all, Max 22 and Ida 9.", "How many tickets did Lena sell in all?", "17"),
    ("- Lena: 14 tickets\n- Ida: 9 tickets\n- Max: 22 - 5 = 17 tickets", "How many tickets has Ida?", "9 tickets"),
    # What comes of the first part stands behind "so".
    ("512 seats in total, 391 taken, so 121 are still free.", "How many seats are still free?", "121"),
    # What the question gives is not asked for.
    ("Of the bus's 40 seats 26 are taken.", "A bus has 40 seats, 14 of them free. How many seats are taken?", "26"),
    # Beside an equation that says nothing itself.
    ("5 dogs and 8 birds, because 5·4 + 8·2 = 36.", "How many birds are there?", "8"),
    ("2c + 4k = 40 and c + k = 16, so k = 4 and c = 12.", "How many cows are there?", ""),
    # A remark that says nothing of the question behind the sentence that says all of it.
    ("The fence will cost Tom $30. He needs 6 boards.", "How much will the fence cost Tom?", "$30"),
    ("A violin has four strings. Some models have 5, others 7.", "How many strings does a violin have?", "four"),
    ("Spiders have eight legs: 4 on each side.", "How many legs does a spider have?", "eight"),
    ("A violin does not have six strings. It has 4.", "How many strings does a violin have?", "4"),
    ("They need 7 buses, since 6 buses would carry 288.", "How many buses do they need?", "7"),
    ("She ran 4 + 5 = 9 miles in 2 days, an average of 4.5 miles a day.", "What is her average a day?", "4.5 miles"),
    ("The fence will cost Tom $30. With paint, it comes to $42.", "How much will the fence cost Tom?", "$42"),
])
def test_the_number_that_is_asked_for(text: str, question: str, said: str) -> None:
    assert extract(text, "number", question=question).text == said
