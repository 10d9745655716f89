"""Ask, extract, score, count, compare: did it get better, or is that noise?"""
