use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_domain::time::Timestamp;

use super::{Message, sign, written};

#[test]
fn a_signature_is_the_one_that_the_standard_shows() {
    // The example of the Standard Webhooks specification, whose secret has 24 bytes; HMAC pads
    // shorter keys with zeros, so the same key with zeros behind it signs alike.
    let known = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("it is base64");
    let mut secret = [0; 32];
    secret[..known.len()].copy_from_slice(&known);
    let message = Message {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into(),
        at: Timestamp(1_614_265_330_000),
        body: r#"{"test": 2432232314}"#.into(),
    };
    assert_eq!(sign(&secret, &message), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert!(written(&secret).starts_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
}
