"""Questions put to Kafka itself: its answers are what klogtool is held against."""
