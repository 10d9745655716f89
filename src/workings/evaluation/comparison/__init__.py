"""Two scorecards or more: may they be compared, by how much do they differ, and is that more than noise?"""
