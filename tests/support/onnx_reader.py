"""Reads ONNX as onnx.proto3 numbers its fields, and computes a model with NumPy. Each operation computes in f32; in f16
its inputs and its result are f16, as on a GPU."""

import math
import struct

import numpy as np

FLOAT, F16, BF16 = 1, 10, 16


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        else:
            assert tag & 7 == 2, tag
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


def first(message, field, default=b""):
    return message.get(field, [default])[0]


def constant(tensor):
    """Values of a TensorProto; bf16 as f32, which holds them all."""
    kind, raw = tensor[2][0], tensor[9][0]
    if kind == BF16:
        values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(raw, {FLOAT: "<f4", 7: "<i8", F16: "<f2"}[kind])
    return values.reshape(tensor.get(1, []))


def load(path):
    """Returns the model's and the graph's fields, the constants, their types, and the operations."""
    with open(path, "rb") as file:
        model = fields(file.read())
    graph = fields(first(model, 7))
    tensors = {t[8][0].decode(): t for t in map(fields, graph[5])}
    nodes = []
    for n in map(fields, graph[1]):
        attributes = {}
        for a in map(fields, n.get(5, [])):
            attributes[a[1][0].decode()] = {1: a.get(2), 2: a.get(3), 7: a.get(8)}[a[20][0]]
        nodes.append((n[4][0].decode(), [i.decode() for i in n[1]], n[2][0].decode(), attributes))
    constants = {name: constant(t) for name, t in tensors.items()}
    return model, graph, constants, {name: t[2][0] for name, t in tensors.items()}, nodes


def windows(x, kernel_shape, strides, pads, outside):
    """[n, c, h', w', kh, kw]"""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=outside)
    every = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, axis=(2, 3))
    return every[:, :, :: strides[0], :: strides[1]]


def by_channel(vector):
    return np.reshape(vector, (-1, 1, 1))


def conv(x, w, b=0, kernel_shape=None, strides=None, pads=None):
    patches = windows(x, kernel_shape, strides, pads, 0)
    return np.einsum("nihwkl,oikl->nohw", patches, w, optimize=True) + by_channel(b)


def norm(x, scale, bias, mean, var, epsilon):
    return (x - by_channel(mean)) / np.sqrt(by_channel(var) + epsilon[0]) * by_channel(scale) + by_channel(bias)


def pad(x, pads):
    return np.pad(x, list(zip(pads[:4], pads[4:])))


OPS = {
    "Conv": conv,
    "BatchNormalization": norm,
    "MaxPool": lambda x, kernel_shape, strides, pads: windows(x, kernel_shape, strides, pads, -np.inf).max((4, 5)),
    "AveragePool": lambda x, kernel_shape, strides, pads: windows(x, kernel_shape, strides, pads, np.nan).mean((4, 5)),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "Relu": lambda x: np.maximum(x, 0),
    "Erf": np.vectorize(math.erf, otypes="f"),
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Add": lambda a, b: a + b,
    "Flatten": lambda x, axis: x.reshape(len(x), -1),
    "Gemm": lambda x, w, b=0, transB=None: x @ w.T + b,
}


def apply(op, inputs, attributes):
    if op == "Cast":
        return inputs[0].astype({FLOAT: "f4", F16: "f2"}[attributes["to"][0]])
    if op == "Pad":
        return pad(*inputs)
    (kind,) = {x.dtype for x in inputs}  # operations do not mix types
    return np.asarray(OPS[op](*(x.astype("f4") for x in inputs), **attributes)).astype(kind)


def compute(path, x):
    _, graph, values, _, nodes = load(path)
    values[fields(graph[11][0])[1][0].decode()] = x
    for op, inputs, output, attributes in nodes:
        values[output] = apply(op, [values[i] for i in inputs], attributes)
    return values["logits"]
