"""The check that ships in every bundle, and the golden data that it compares with."""
