"""What coordinators keep in internal topics: committed offsets of groups, and the state of transactional ids."""
