"""The forecasters themselves, one file each.

May import the contract and the helpers of `forecast`.
"""
