use baton_domain::limits::BUDGET_MICROS_MAX;

use super::Money;

#[test]
fn an_amount_reads_back_as_it_is_written() {
    for (micros, text) in [
        (0, "0.00"),
        (1, "0.000001"),
        (10_000, "0.01"),
        (12_500_000, "12.50"),
        (12_345_600, "12.3456"),
        (BUDGET_MICROS_MAX, "1000000000.00"),
    ] {
        assert_eq!(Money(micros).to_string(), text);
        assert_eq!(text.parse(), Ok(Money(micros)));
    }
    assert_eq!("25".parse(), Ok(Money(25_000_000)));
    assert_eq!("0.5".parse(), Ok(Money(500_000)));
}

#[test]
fn what_is_no_amount_is_refused() {
    for text in [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "+1",
        "1e3",
        "1,5",
        "0.0000001",
        "1000000000.000001",
        " 1",
        "1.0.0",
    ] {
        assert!(text.parse::<Money>().is_err(), "{text:?}");
    }
}
