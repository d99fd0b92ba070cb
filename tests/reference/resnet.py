"""Residual networks for small images in torch, straight from section 4.2 of He et al. 2016a and figure 4 of 2016b."""

import torch
import torch.nn.functional as F


class Unit(torch.nn.Module):
    def __init__(self, before, channels, stride, pre, residual, bottleneck):
        super().__init__()
        narrow = channels // 4
        sizes = [(before, narrow, 1, 1), (narrow, narrow, 3, stride), (narrow, channels, 1, 1)] if bottleneck else [
            (before, channels, 3, stride), (channels, channels, 3, 1)]
        self.conv = torch.nn.ModuleList(torch.nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norm = torch.nn.ModuleList(torch.nn.BatchNorm2d(i if pre else o) for i, o, _, _ in sizes)
        self.pre, self.residual, self.stride, self.new = pre, residual, stride, channels - before

    def forward(self, x):
        y = x
        for number, (conv, norm) in enumerate(zip(self.conv, self.norm)):
            if self.pre:
                y = conv(F.relu(norm(y)))
            else:
                y = norm(conv(y))
                y = F.relu(y) if number < len(self.conv) - 1 else y
        if self.residual:
            y = y + F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.new))
        return y if self.pre else F.relu(y)


class ResNet(torch.nn.Module):
    def __init__(self, n, width, classes, colors=1, pre=False, residual=True, bottleneck=False):
        super().__init__()
        times = 4 if bottleneck else 1
        self.stem, self.pre = torch.nn.Conv2d(colors, width, 3, 1, 1, bias=False), pre
        units, before = [], width
        for stage in range(3):
            for number in range(n):
                after = times * width * 2 ** stage
                units.append(Unit(before, after, 2 if stage and not number else 1, pre, residual, bottleneck))
                before = after
        self.units, self.norm = torch.nn.ModuleList(units), torch.nn.BatchNorm2d(before if pre else width)
        self.classifier = torch.nn.Linear(before, classes)

    def forward(self, x):
        x = self.stem(x)
        x = x if self.pre else F.relu(self.norm(x))
        for unit in self.units:
            x = unit(x)
        x = F.relu(self.norm(x)) if self.pre else x
        return self.classifier(x.mean(dim=(2, 3)))
