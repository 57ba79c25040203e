"""Keys and values of records, decoded for people: numbers, JSON, Avro, Protobuf, MessagePack, and what others decode.

Bytes in, values of JSON out. What cannot be decoded stays as it is, with a reason.

record_values      keys and values of one dump: how each is decoded, and how many could not be
decoded            one key or value: its value or why not, as JSON and as text
bounds             how large and how deep a decoded value may be
formats            the formats by their names; those with one value: Kafka's own serializers, and hex
json_values        JSON
msgpack_values     MessagePack
avro_values        Avro
avro_programs      schemas of Avro for the kernel that makes JSON of values
avro_schemas       schemas of Avro, and those that they refer to
protobuf_values    Protobuf
framing            what serializers of schema registries put before a value
schemas            a folder of schemas
piped              a program that decodes: bytes in, lines of JSON out
"""
