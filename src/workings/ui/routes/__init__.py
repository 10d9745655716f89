"""One file a page. Each page's JSON twin has the same path behind `/api`."""
