//! Airtel Africa Money, disbursements v2 and v3: three envelopes, and failures in HTTP 200.

use std::io;
use std::time::Duration;

use aws_lc_rs::cipher::{AES_256, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, Pkcs1PrivateDecryptingKey,
    PrivateDecryptingKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use serde::Deserialize;
use serde_json::{Number, Value, json};

use crate::rail::{Ask, Asked, Order, Rail, Reply};
use crate::script::Says;
use crate::tokens::Tokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const CLIENT_ID: &str = "simulated-airtel-client-id";
pub(crate) const CLIENT_SECRET: &str = "simulated-airtel-client-secret";
pub(crate) const PIN: &str = "4711";
/// Its public half is `config/rails/simulated/airtel.pub.pem`.
const PRIVATE_KEY: &str = include_str!("../keys/airtel.pem");

/// Where payments are posted: version 2 with a slash at the end, version 3 without.
const V2: &str = "/standard/v2/disbursements/";
const V3: &str = "/standard/v3/disbursements";
const SUCCESS: &str = "DP00900001001";
const MARKETS: [(&str, &str); 8] = [
    ("ZM", "ZMW"),
    ("UG", "UGX"),
    ("KE", "KES"),
    ("TZ", "TZS"),
    ("RW", "RWF"),
    ("MW", "MWK"),
    ("CD", "CDF"),
    ("TD", "XAF"),
];
const DECIMALS_MAX: usize = 3;

/// How what we encrypt for Airtel is padded: its documents of different markets disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    Pkcs1,
    OaepSha1,
    OaepSha256,
}

#[derive(Debug)]
pub(crate) struct Airtel {
    key: PrivateDecryptingKey,
    padding: Padding,
    signing: bool,
}

#[derive(Debug, Deserialize)]
struct Disbursement {
    payee: Payee,
    reference: String,
    pin: String,
    transaction: Transaction,
}

#[derive(Debug, Deserialize)]
struct Payee {
    msisdn: String,
    currency: Option<String>,
    wallet_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Transaction {
    amount: Number,
    id: String,
    r#type: String,
}

impl Airtel {
    pub(crate) fn new(padding: Padding, signing: bool) -> io::Result<Self> {
        let wrong = |what: String| io::Error::other(format!("Airtel's key: {what}"));
        let text: String = PRIVATE_KEY.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = BASE64.decode(text).map_err(|error| wrong(error.to_string()))?;
        let key = PrivateDecryptingKey::from_pkcs8(&der).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { key, padding, signing })
    }

    /// What was encrypted under its public key.
    fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let sealed = BASE64.decode(sealed).ok()?;
        let mut room = vec![0; self.key.key_size_bytes()];
        let oaep = match self.padding {
            Padding::Pkcs1 => {
                let key = Pkcs1PrivateDecryptingKey::new(self.key.clone()).ok()?;
                return Some(key.decrypt(&sealed, &mut room).ok()?.to_vec());
            }
            Padding::OaepSha1 => &OAEP_SHA1_MGF1SHA1,
            Padding::OaepSha256 => &OAEP_SHA256_MGF1SHA256,
        };
        let key = OaepPrivateDecryptingKey::new(self.key.clone()).ok()?;
        let opened = key.decrypt(oaep, &sealed, &mut room, None).ok()?;
        Some(opened.to_vec())
    }

    /// Whether `x-signature`, opened by what `x-key` holds, is the body.
    fn signed(&self, asked: &Asked) -> Option<bool> {
        let opener = String::from_utf8(self.open(asked.header("x-key")?)?).ok()?;
        let (key, iv) = opener.split_once(':')?;
        let (key, iv) = (BASE64.decode(key).ok()?, BASE64.decode(iv).ok()?);
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_256, &key).ok()?).ok()?;
        let mut sealed = BASE64.decode(asked.header("x-signature")?).ok()?;
        let iv = DecryptionContext::Iv128(FixedLength::try_from(iv.as_slice()).ok()?);
        Some(key.decrypt(&mut sealed, iv).ok()? == asked.body.as_slice())
    }

    fn order(&self, asked: &Asked, tokens: &Tokens) -> Result<Order, Reply> {
        let body: Disbursement = serde_json::from_slice(&asked.body)
            .map_err(|_| gateway("ROUTER003", "Required params are missing"))?;
        let currency = authorised(asked, tokens)?;
        // Version 2 names the currency again, version 3 the kind of wallet.
        let fits = match asked.path == V2 {
            true => body.payee.currency.as_ref() == Some(&currency),
            false => matches!(body.payee.wallet_type.as_deref(), Some("NORMAL" | "SALARY")),
        };
        if !fits {
            return Err(gateway("ROUTER003", "Required params are missing"));
        }
        if self.signing && self.signed(asked) != Some(true) {
            return Err(refusal(200, "DP00900001016", None));
        }
        match self.open(&body.pin) {
            None => return Err(gateway("ROUTER116", "Wrong encrypted pin")),
            Some(pin) if pin != PIN.as_bytes() => return Err(gateway("ROUTER115", "Incorrect pin")),
            Some(_) => {}
        }
        let amount = body.transaction.amount.to_string();
        let decimals = amount.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let positive =
            amount.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) && !amount.contains(['-', 'e', 'E']);
        if !positive || decimals > DECIMALS_MAX {
            return Err(refusal(200, "DP00900001004", Some("ESB000008")));
        }
        let digits = body.payee.msisdn.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || body.payee.msisdn.len() != 9 {
            return Err(refusal(200, "DP00900001012", Some("521002")));
        }
        let plain = |text: &str, least, most| {
            (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !plain(&body.transaction.id, 5, 80)
            || !plain(&body.reference, 4, 64)
            || body.transaction.r#type != "B2C"
        {
            return Err(refusal(200, "DP00900001013", Some("521002")));
        }
        Ok(Order {
            key: body.transaction.id,
            payee: body.payee.msisdn,
            amount,
            currency,
            reference: body.reference,
            note: String::new(),
            callback: None,
        })
    }
}

impl Rail for Airtel {
    fn read(&self, asked: &Asked, tokens: &Tokens) -> Result<Ask, Reply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, "/auth/oauth2/token") => session(asked),
            (&Method::POST, V2 | V3) => Ok(Ask::Pay(Box::new(self.order(asked, tokens)?))),
            (&Method::GET, path) => {
                let of_v3 = || path.strip_prefix(V3).and_then(|rest| rest.strip_prefix('/'));
                let id = path.strip_prefix(V2).or_else(of_v3).filter(|id| !id.is_empty());
                let Some(id) = id else { return Err(Reply::empty(404)) };
                authorised(asked, tokens)?;
                if path.starts_with(V2) && asked.query.as_deref() != Some("transactionType=B2C") {
                    return Err(gateway("ROUTER003", "Required params are missing"));
                }
                Ok(Ask::Status(id.to_owned()))
            }
            _ => Err(Reply::empty(404)),
        }
    }

    /// The lifetime is a text.
    fn session(&self, token: &str, lifetime: Duration) -> Reply {
        let seconds = lifetime.as_secs().to_string();
        Reply::json(200, &json!({ "token_type": "bearer", "access_token": token, "expires_in": seconds }))
    }

    fn accepted(&self, order: &Order, says: &Says) -> Reply {
        self.status(order, says)
    }

    fn duplicate(&self, _: &Order) -> Reply {
        refusal(200, "DP00900001011", Some("521050"))
    }

    fn status(&self, order: &Order, says: &Says) -> Reply {
        let paid = format!("CI{}", &order.key[..order.key.len().min(16)]);
        match says {
            Says::Settled => envelope(SUCCESS, transaction(order, "TS", Some(&paid))),
            Says::Pending(word) => {
                envelope("DP00900001006", transaction(order, word.as_deref().unwrap_or("TIP"), None))
            }
            Says::Word(word) => envelope("DP00900001000", transaction(order, word, None)),
            Says::Failed { variant: None, code } => envelope(code, transaction(order, "TF", None)),
            Says::Failed { variant: Some(variant), code } => match variant.as_str() {
                "bare" => refusal(200, code, None),
                "with-numbers" => Reply::json(
                    200,
                    &json!({ "data": [], "status": {
                        "response_code": code, "code": 400, "success": false, "result_code": 521002, "message": "Said by the script.",
                    } }),
                ),
                "by-result" => Reply::json(
                    200,
                    &json!({ "status": { "result_code": code, "code": "400", "success": false, "message": "Said by the script." } }),
                ),
                _ => gateway(code, "Said by the script."),
            },
            Says::Missing => self.not_found(),
        }
    }

    fn not_found(&self) -> Reply {
        refusal(200, "DP00900001015", None)
    }

    fn busy(&self) -> Reply {
        Reply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> Reply {
        match code.starts_with("ROUTER") {
            true => Reply::json(
                status,
                &json!({ "status_message": "Refused by the script.", "status_code": code }),
            ),
            false => refusal(status, code, None),
        }
    }

    /// Without a transaction; with numbers and an empty list; with the deprecated code alone; in the gateway's envelope.
    fn variants(&self) -> &'static [&'static str] {
        &["bare", "with-numbers", "by-result", "by-gateway"]
    }
}

fn session(asked: &Asked) -> Result<Ask, Reply> {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let right = body["client_id"] == CLIENT_ID
        && body["client_secret"] == CLIENT_SECRET
        && body["grant_type"] == "client_credentials";
    match right {
        true => Ok(Ask::Session),
        false => Err(Reply::json(
            400,
            &json!({ "error_description": "Invalid client authentication", "error": "invalid_client" }),
        )),
    }
}

/// Country, currency and token; answers with the currency.
fn authorised(asked: &Asked, tokens: &Tokens) -> Result<String, Reply> {
    let Some(country) = asked.header("x-country") else {
        return Err(gateway("ROUTER110", "Partner is not found"));
    };
    let Some((_, own)) = MARKETS.iter().find(|(market, _)| *market == country) else {
        return Err(gateway("ROUTER006", "Invalid country"));
    };
    if asked.header("x-currency").is_some_and(|currency| currency != *own) {
        return Err(gateway("ROUTER112", "Invalid currency"));
    }
    if !asked.bearer().is_some_and(|token| tokens.is_good(token)) {
        return Err(Reply::json(
            403,
            &json!({ "error_description": "The access token is invalid or has expired", "error": "invalid_token" }),
        ));
    }
    asked.header("x-currency").map(ToOwned::to_owned).ok_or_else(|| {
        let message = "Missing request header 'x-wallet-id' for method parameter of type String";
        Reply::json(
            200,
            &json!({ "status": { "result_code": "ESB000008", "code": "400", "success": false, "message": message } }),
        )
    })
}

fn gateway(code: &str, message: &str) -> Reply {
    Reply::json(400, &json!({ "status_message": message, "status_code": code }))
}

/// A failure without a transaction.
fn refusal(status: u16, code: &str, result_code: Option<&str>) -> Reply {
    Reply::json(
        status,
        &json!({ "status": {
            "response_code": code, "code": "400", "success": false,
            "result_code": result_code.unwrap_or("ESB000011"), "message": "Transaction failed.",
        } }),
    )
}

fn envelope(code: &str, transaction: Value) -> Reply {
    let success = code == SUCCESS;
    Reply::json(
        200,
        &json!({
            "data": { "transaction": transaction },
            "status": {
                "response_code": code, "code": if success { "200" } else { "400" }, "success": success,
                "result_code": if success { "ESB000010" } else { "ESB000011" }, "message": "Said by the simulator.",
            },
        }),
    )
}

/// The names are given with a success only: what payees and the portal see, and one that is made of our own id.
fn transaction(order: &Order, status: &str, paid: Option<&str>) -> Value {
    let mut transaction = json!({ "id": order.key, "status": status, "message": "Said by the simulator." });
    if let Some(paid) = paid {
        transaction["reference_id"] = json!(paid);
        transaction["airtel_money_id"] = json!(format!("disbursement-SIM-{}", order.key));
    }
    transaction
}
