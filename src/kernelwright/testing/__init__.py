"""Conformance suites: the contract of a plug-in is a test class to inherit from.

`languages.LanguageSuite` for a language, `strategies.StrategySuite` for a strategy. They need pytest.
"""
