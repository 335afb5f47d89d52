"""kernelwright: give it an operation; get back the fastest kernel that survives the judge."""
