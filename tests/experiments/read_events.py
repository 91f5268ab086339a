"""Reads an event file of TensorBoard with nothing but the standard library, checks every checksum, and prints a line
for each scalar: step, wall time, tag, value. Written from the formats (TFRecord; tensorboard/compat/proto/event.proto
and summary.proto; Protocol Buffers' encoding)."""

import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def records(data):
    at = 0
    while at < len(data):
        head = data[at : at + 8]
        (length,) = struct.unpack("<Q", head)
        assert struct.unpack("<I", data[at + 8 : at + 12])[0] == masked(head), at
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack("<I", data[at + 12 + length : at + 16 + length])[0] == masked(body), at
        yield body
        at += 16 + length
    assert at == len(data)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(message):
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
        elif kind == 2:
            length, at = varint(message, at)
            value, at = message[at : at + length], at + length
            assert len(value) == length
        else:
            size = {1: 8, 5: 4}[kind]
            (value,) = struct.unpack({1: "<d", 5: "<f"}[kind], message[at : at + size])
            at += size
        yield key >> 3, value


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    for number, record in enumerate(records(data)):
        event = dict(fields(record))  # a field an event: none is repeated
        if number == 0:
            assert event[3] == b"brain.Event:2" and set(event) == {1, 3}, event
            continue
        assert set(event) == {1, 2, 5}, event
        for field, value in fields(event[5]):
            assert field == 1
            scalar = dict(fields(value))
            assert set(scalar) == {1, 2}, scalar
            print(event[2], repr(event[1]), scalar[1].decode(), repr(scalar[2]))


main()
