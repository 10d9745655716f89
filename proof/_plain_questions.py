"""Questions without numbers, as people put them to an assistant: frames, each with several things to ask about.

Two questions of one frame are other questions, however much of their wording they share.
"""

FRAMES: dict[str, tuple[str, ...]] = {
    "What is the capital of {}?": ("France", "Peru", "Kenya", "Norway"),
    "Write a short story about {} that learns to trust a stranger.": ("a dragon", "a robot", "an old sailor"),
    "Explain how {} works in simple terms that a child would understand.": (
        "a refrigerator", "the internet", "a vaccine", "a bicycle gear"),
    "Give me some tips on how to improve my {} before the end of the year.": (
        "handwriting", "running technique", "public speaking", "chess openings"),
    "Translate the following sentence into {}: The library is closed today because of the storm.": (
        "French", "German", "Spanish", "Japanese"),
    "Summarize the main causes of {} and say which of them historians find most important.": (
        "the French Revolution", "the fall of Rome", "the First World War"),
    "Compare {} and say which one you would recommend to a beginner.": (
        "Python and Java", "acoustic and electric guitars", "watercolour and oil paint"),
    "Write an email to my {} asking for a meeting about the new schedule.": ("manager", "landlord", "professor"),
    "My {} keeps making a strange noise when I turn it on. What could be wrong with it?": (
        "washing machine", "laptop", "car", "heater"),
    "List the ingredients that are needed for a traditional {} and describe how to prepare it.": (
        "lasagne", "paella", "apple strudel", "ramen"),
    "Describe the life cycle of {} and name the stage at which it is most vulnerable.": (
        "a butterfly", "a frog", "an oak tree"),
    "Which {} would you suggest for a family with small children and a large garden?": (
        "dog breed", "lawn mower", "swing set"),
    "Rewrite this sentence so that it sounds more {}: We regret that your order was delayed.": (
        "friendly", "formal", "apologetic"),
    "Why do {} migrate in autumn, and how do they find their way?": ("swallows", "salmon", "monarch butterflies"),
    "A farmer has to bring {} across a river in a boat that holds only one of them besides him. How does he do it?": (
        "a wolf, a goat and a cabbage", "a fox, a hen and a sack of corn"),
    "Is it safe to {} while taking medicine against high blood pressure?": (
        "drink grapefruit juice", "go to the sauna", "do heavy weightlifting"),
    "Classify the following review as positive or negative: The {} was slow, but everything else exceeded what we "
    "had hoped for.": ("service", "delivery", "lift", "website"),
    "Who wrote {}, and what is the book about?": ("Frankenstein", "Don Quixote", "Things Fall Apart"),
    "Suggest a name for a {} that wants to look modern and trustworthy.": ("bakery", "law firm", "dental clinic"),
    "If all {} are animals and some animals sleep in winter, does it follow that some of them sleep in winter?": (
        "hedgehogs", "penguins"),
}
QUESTIONS = tuple(frame.format(thing) for frame, things in FRAMES.items() for thing in things)
