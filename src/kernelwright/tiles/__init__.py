"""What the tile languages run in processes of their own: they import the author's Python and the compilers.

Never imported by the parent: `languages.author_code` starts these modules by name.
Not here: the languages' other half, which knows plans and needs no framework (languages/triton.py,
languages/cutile.py).
"""
