#!/usr/bin/env python
"""Run a management command of the test project."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    demo = sys.argv[1:2] == ["demo"]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.demo_settings" if demo else "testproject.settings")
    execute_from_command_line(sys.argv)
