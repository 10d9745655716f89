"""A row with three ends of text, packed with another by transformers' `DataCollatorWithFlattening`: its documents."""
from _tiny import say
from transformers import DataCollatorWithFlattening

rows = [{"input_ids": [5, 6, 2, 7, 8, 2, 9, 2]}, {"input_ids": [5, 6, 2]}]
starts = DataCollatorWithFlattening()(rows)["position_ids"][0].tolist().count(0)
say("right" if starts == 2 else "wrong", f"{starts} documents for 2 rows with 4 ends of text")
