"""Data sets beside the checkout, which some measurements use: ../shared/data."""

import os
import stat

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")


def is_trusted(path):
    """Returns true if `path` belongs to root or this user, nobody else may write to it, and it is no link."""
    about = os.lstat(path)
    return (
        about.st_uid in (0, os.geteuid())
        and not stat.S_ISLNK(about.st_mode)
        and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def shared_data(*names):
    """Returns the path of ../shared/data/NAME/...; "" if it is missing, or another user may have put
    it there. Some of these files are programs, and anybody may make names in a folder like /tmp."""
    path = SHARED
    for name in ("data", *names, ""):
        if not os.path.exists(path) or not is_trusted(path):
            return ""
        path = os.path.join(path, name)
    return path.rstrip("/")
