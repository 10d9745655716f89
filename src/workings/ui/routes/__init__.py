"""One file per page. Each page's JSON twin has the same path after `/api`."""
