"""Mutation testing of the rules: what retention, cleaning, recovery and findings decide (`make mutants`).

rules.toml       which modules are rules, and which tests have to notice a change of them
survivors.toml   mutants that no test notices, each with the reason
"""
