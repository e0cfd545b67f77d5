"""Commands about this machine: doctor, init, a Kafka broker. They may import anything below."""
