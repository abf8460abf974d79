"""Draws how far the training losses of two runs are apart, step by step: plot.py RUN RUN --difference."""
from convoy_plot_base import colors, np, plain, plt, save
from convoy_plot_files import BAD_INPUT, fail

MOST_RESTARTS = 1000  # that are drawn


def difference(run, other):
    """Returns the steps that both runs have, and at each the loss of `other` minus that of `run` (nat)."""
    step, at, other_at = np.intersect1d(run.train["step"], other.train["step"], return_indices=True)
    if not len(step):
        fail(BAD_INPUT, f"{run.name} and {other.name} have no step in common")
    return step, other.train["loss"][other_at] - run.train["loss"][at]


def draw_difference(run, other, title, out):
    """Draws the losses, their difference below, and a line at each resume of the second run. Returns a summary."""
    step, apart = difference(run, other)
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(12, 7), constrained_layout=True)
    first, second = colors((run, other))
    name, other_name = plain(run.name), plain(other.name)
    above.plot(run.train["step"], run.train["loss"], color=first, linewidth=3, alpha=0.5, label=name)
    above.plot(other.train["step"], other.train["loss"], color=second, linewidth=1, label=other_name)
    above.set(ylabel="training loss (nat)")
    below.plot(step, apart, color=second, linewidth=1)
    below.set(xlabel="optimizer step", ylabel=f"{other_name} - {name} (nat)")
    for axes in (above, below):
        axes.grid(alpha=0.3)
        if other.restarts:
            limits = axes.get_ylim()
            label = f"{other_name} resumed" if axes is above else None
            axes.vlines(other.restarts[-MOST_RESTARTS:], *limits, color="0.4", linestyle=":", label=label)
            axes.set_ylim(limits)
    above.legend(fontsize=8)
    figure.suptitle(plain(title) if title else f"{other_name} beside {name}", fontsize=13)
    save(figure, out)
    return f"largest difference of train/loss: {np.max(np.abs(apart)):g} nat over {len(step)} steps"
