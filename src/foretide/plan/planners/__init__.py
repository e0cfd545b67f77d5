"""The planners, one file each, named after their paper. They may import `plan` and what lies below it."""
