"""The command line, one file per command, in folders by what people do with it.

May import everything else; heavy modules only inside a command, so that ``--help`` answers at once.
"""
