"""What every request passes: access, limits, bodies, answers, problems. May import the service's settings."""
