"""What is rotten in a store of memories: said twice, contradicted, dangerous, or about what is no more. Reads only.

It knows texts and where they stand, not where they are kept, so it judges our store and another program's alike.
"""
