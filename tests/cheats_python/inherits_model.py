# TRICK: inherits from the reference's class
# CAUGHT BY: exception


class ModelNew(Model):
    pass
