"""The only hash function of the package: it spreads keys over buckets and orders state tables.

`scalar` hashes the bytes of one key and says why this hash cannot change; `columns` hashes many
keys at once, with the same bits.

Start with `scalar`.
"""
