"""Matrix products on one device: many schedules of one product, checked and timed beside the vendor's libraries.

What `tune` and `bench` ask for thousands of times, so it is quicker and says less than the judge: a winner is judged
in full (judge/device) before anybody is told of it.
"""
