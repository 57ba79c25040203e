"""The judge: log dirs of real brokers, damaged at random; what `klogtool doctor` claims, and what a broker then does.

    PYTHONPATH=tests python -m judge 4.3.1 --partitions 5 --dirs 20 --commands 2 --seed 1

`bases` makes log dirs with a real broker, `*_faults` damage copies of them, `claims` asks the doctor, `truth` starts a
broker on another copy and has Kafka's own consumer read, `comparison` holds one against the other. Nothing here decides
anything: where the two differ, the broker is right, or the judge has a fault of its own.
"""
