"""The modes of launch.py."""
