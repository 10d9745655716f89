"""One file per page. A JSON twin has the same path after `/api`."""
