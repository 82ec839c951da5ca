"""`windrow demo`: auctions joined with their bids, exactly and then in less memory and time."""
