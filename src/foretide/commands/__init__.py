"""The commands of the command line, one file each; heavy modules are imported when a command needs them."""
