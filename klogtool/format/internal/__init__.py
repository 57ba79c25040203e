"""Keys and values of Kafka's internal topics, from Kafka's own field tables.

records      the frame around a message, which says what message it is
message      messages of any version: parsed and built
schema       Kafka's field tables (schemas.json, added_in_4_4.json)
primitives   the types of Kafka's protocol
quick        messages of numbers, ids and texts, read without construct
offset_commits  committed offsets, cut up without schemas: for `klogtool offsets` and coordinators
decoders     what kafka-dump-log's decoders print; both messages of a record, for columns
json_form    messages as JSON, as Kafka's JsonConverter classes write them
remote_log   records of `__remote_log_metadata` as Java objects
blanked_metadata  records of `__cluster_metadata` without what is private
java_double  doubles as Java prints them
"""
