"""The forecasters themselves, one file each. They may import the contract and helpers of `forecast`."""
