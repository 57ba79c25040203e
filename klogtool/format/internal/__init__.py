"""Keys and values of Kafka's internal topics, from Kafka's own field tables: `records`, `decoders`, `message`."""
