"""Files of vectors that other tools read and write.

Other packages use `json_lines.FORMATS` (sparse formats), `blocks` (what these read and write) and `lookup` (sparse and dense
vectors by id).
"""
