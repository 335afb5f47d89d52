"""Built-in problems that slide a window: pooling and depthwise convolution."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="avg_pool2d",
        group="windows",
        description="average pooling 2x2 with stride 2 of 128 channels",
        model="DenseNet-121, first transition",
    ),
    Entry(
        name="max_pool2d",
        group="windows",
        description="max pooling 3x3 with stride 2 and padding 1 of 64 channels",
        model="ResNet-50, stem",
    ),
    Entry(
        name="depthwise_conv2d",
        group="windows",
        description="depthwise 3x3 convolution of 144 channels",
        model="MobileNetV2",
    ),
    Entry(
        name="causal_conv1d",
        group="windows",
        description="causal depthwise convolution of width 4, then SiLU",
        model="Mamba 130M",
    ),
)
