import pytest

from bench.stats import median, paired_ratio, quantile, spread


@pytest.mark.parametrize(
    ("samples", "share", "expected"),
    [
        ([7.0], 0.9, 7.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([0.0, 10.0], 0.1, 1.0),
        (list(map(float, range(11))), 0.9, 9.0),
        ([1.0, 5.0], 1.0, 5.0),
    ],
)
def test_quantiles(samples, share, expected):
    assert quantile(samples, share) == pytest.approx(expected)


def test_a_quantile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)
    with pytest.raises(ValueError, match="no samples"):
        spread([[], []])


def test_the_median_needs_no_order():
    assert median([9.0, 1.0, 5.0]) == 5.0


def test_a_ruined_round_does_not_move_the_median_far():
    # The ruined round holds more samples than the others together.
    found = spread([[10.0] * 3, [11.0] * 3, [900.0] * 50])
    assert found.median == 11.0
    assert found.min == 10.0
    assert found.p90 == 900.0
    assert (found.rounds, found.samples) == (3, 56)


def test_ratios_are_taken_round_by_round():
    # The machine was ten times slower in the second round, for both sides alike.
    assert paired_ratio([[20.0], [200.0]], [[10.0], [100.0]]) == 2.0


def test_a_ratio_ignores_rounds_that_one_side_lacks():
    assert paired_ratio([[20.0], [80.0]], [[10.0]]) == 2.0
    assert paired_ratio([[20.0], []], [[10.0], [10.0]]) == 2.0
