"""What keeps a store going: admin, API, commands and Celery all call these functions."""
