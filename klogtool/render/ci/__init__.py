"""Findings of verify in the formats of CI systems: `klogtool verify --format junit|sarif|github|gitlab`.

report  what the formats have in common: places, levels, what a format is asked to write
junit   JUnit XML, as Jenkins and many others read it: a testcase for each partition
sarif   SARIF 2.1.0: findings with rules, bytes and fingerprints
github  workflow commands of GitHub Actions: an annotation for each finding
gitlab  GitLab's Code Quality report
"""
