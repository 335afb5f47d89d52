# TRICK: inherits from the reference's class
# CAUGHT BY: exception
# SEEN: inside


class ModelNew(Model):
    pass
