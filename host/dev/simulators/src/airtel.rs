//! Airtel Africa Money, disbursements v2 and v3: three envelopes, and failures in HTTP 200.

use std::io;
use std::time::Duration;

use aws_lc_rs::cipher::{AES_256, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use rsa::pkcs8::{DecodePrivateKey, EncodePublicKey};
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPrivateKey};
use serde_json::{Value, json};

use crate::order::ReceivedPayment;
use crate::parse::Json;
use crate::rail::{Ask, RailModel, RailRequest, SimulatedReply};
use crate::script::Says;
use crate::tokens::IssuedTokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const CLIENT_ID: &str = "simulated-airtel-client-id";
pub(crate) const CLIENT_SECRET: &str = "simulated-airtel-client-secret";
pub(crate) const PIN: &str = "4711";
/// Of 1024 bits, as Airtel publishes them. Its public half is `config/rails/simulated/airtel.pub.pem`.
const PRIVATE_KEY: &str = include_str!("../keys/airtel.pem");
/// Of the later encryption, with OAEP; its public half stands beside the other.
const PRIVATE_KEY_2048: &str = include_str!("../keys/airtel_2048.pem");

/// Where payments are posted: version 2 with a slash at the end, version 3 without.
const V2: &str = "/standard/v2/disbursements/";
const V3: &str = "/standard/v3/disbursements";
const KEYS: &str = "/v1/rsa/encryption-keys";
const BALANCE: &str = "/standard/v2/users/balance";
const USERS: &str = "/standard/v1/users/";
/// Its keys end so long after they are asked for.
const KEY_DAYS: u64 = 30;
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
    /// Java's default under the name that Airtel's documents give.
    OaepSha256Mgf1Sha1,
}

#[derive(Debug)]
pub(crate) struct Airtel {
    key: RsaPrivateKey,
    padding: Padding,
    signing: bool,
}

#[derive(Debug)]
struct Disbursement {
    msisdn: String,
    currency: Option<String>,
    wallet_type: Option<String>,
    reference: String,
    pin: String,
    /// The digits of a number.
    amount: String,
    id: String,
    kind: String,
}

impl Disbursement {
    fn read(body: &[u8]) -> Option<Self> {
        let json = Json::read(body)?;
        let text = |path: &[&str]| json.text(path).map(ToOwned::to_owned);
        Some(Self {
            msisdn: text(&["payee", "msisdn"])?,
            currency: text(&["payee", "currency"]),
            wallet_type: text(&["payee", "wallet_type"]),
            reference: text(&["reference"])?,
            pin: text(&["pin"])?,
            amount: json.number(&["transaction", "amount"])?.to_owned(),
            id: text(&["transaction", "id"])?,
            kind: text(&["transaction", "type"])?,
        })
    }
}

impl Airtel {
    pub(crate) fn new(padding: Padding, signing: bool) -> io::Result<Self> {
        let pem = if padding == Padding::Pkcs1 { PRIVATE_KEY } else { PRIVATE_KEY_2048 };
        let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = BASE64.decode(text).map_err(io::Error::other)?;
        let key = RsaPrivateKey::from_pkcs8_der(&der).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { key, padding, signing })
    }

    /// What was encrypted under its public key.
    fn open(&self, sealed: &str) -> Option<Vec<u8>> {
        let sealed = BASE64.decode(sealed).ok()?;
        match self.padding {
            Padding::Pkcs1 => self.key.decrypt(Pkcs1v15Encrypt, &sealed),
            Padding::OaepSha1 => self.key.decrypt(Oaep::new::<sha1::Sha1>(), &sealed),
            Padding::OaepSha256 => self.key.decrypt(Oaep::new::<rsa::sha2::Sha256>(), &sealed),
            Padding::OaepSha256Mgf1Sha1 => {
                self.key.decrypt(Oaep::new_with_mgf_hash::<rsa::sha2::Sha256, sha1::Sha1>(), &sealed)
            }
        }
        .ok()
    }

    /// Whether `x-signature`, opened by what `x-key` holds, is the body.
    fn signed(&self, asked: &RailRequest) -> Option<bool> {
        let opener = String::from_utf8(self.open(asked.header("x-key")?)?).ok()?;
        let (key, iv) = opener.split_once(':')?;
        let (key, iv) = (BASE64.decode(key).ok()?, BASE64.decode(iv).ok()?);
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_256, &key).ok()?).ok()?;
        let mut sealed = BASE64.decode(asked.header("x-signature")?).ok()?;
        let iv = DecryptionContext::Iv128(FixedLength::try_from(iv.as_slice()).ok()?);
        Some(key.decrypt(&mut sealed, iv).ok()? == asked.body.as_slice())
    }

    fn order(&self, asked: &RailRequest, tokens: &IssuedTokens) -> Result<ReceivedPayment, SimulatedReply> {
        let body = Disbursement::read(&asked.body)
            .ok_or_else(|| gateway("ROUTER003", "Required params are missing"))?;
        let currency = authorised(asked, tokens)?;
        // Version 2 names the currency again, version 3 the kind of wallet.
        let fits = match asked.path == V2 {
            true => body.currency.as_ref() == Some(&currency),
            false => matches!(body.wallet_type.as_deref(), Some("NORMAL" | "SALARY")),
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
        let amount = body.amount;
        let decimals = amount.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let positive =
            amount.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) && !amount.contains(['-', 'e', 'E']);
        if !positive || decimals > DECIMALS_MAX {
            return Err(refusal(200, "DP00900001004", Some("ESB000008")));
        }
        if !body.msisdn.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refusal(200, "DP00900001012", Some("521002")));
        }
        // A length that is not the market's is refused with the code for everything else.
        if body.msisdn.len() != 9 {
            return Err(refusal(200, "DP00900001013", Some("521002")));
        }
        let plain = |text: &str, least, most| {
            (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !plain(&body.id, 5, 80) || !plain(&body.reference, 4, 64) || body.kind != "B2C" {
            return Err(refusal(200, "DP00900001013", Some("521002")));
        }
        Ok(ReceivedPayment {
            key: body.id,
            payee: body.msisdn,
            amount,
            currency,
            reference: body.reference,
            note: String::new(),
            batch: String::new(),
            callback: None,
        })
    }
}

impl RailModel for Airtel {
    fn read(&self, asked: &RailRequest, tokens: &IssuedTokens) -> Result<Ask, SimulatedReply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, "/auth/oauth2/token") => session(asked),
            (&Method::POST, V2 | V3) => Ok(Ask::Pay(Box::new(self.order(asked, tokens)?))),
            (&Method::GET, path) => {
                let of_v3 = || path.strip_prefix(V3).and_then(|rest| rest.strip_prefix('/'));
                if path == KEYS || path == BALANCE || path.starts_with(USERS) {
                    let currency = authorised(asked, tokens)?;
                    return Ok(match path.strip_prefix(USERS) {
                        _ if path == KEYS => Ask::Keys,
                        _ if path == BALANCE => Ask::Balance(currency),
                        payee => Ask::Payee(payee.unwrap_or_default().to_owned()),
                    });
                }
                let id = path.strip_prefix(V2).or_else(of_v3).filter(|id| !id.is_empty());
                let Some(id) = id else { return Err(SimulatedReply::empty(404)) };
                authorised(asked, tokens)?;
                if path.starts_with(V2) && asked.query.as_deref() != Some("transactionType=B2C") {
                    return Err(gateway("ROUTER003", "Required params are missing"));
                }
                Ok(Ask::Status(id.to_owned()))
            }
            _ => Err(SimulatedReply::empty(404)),
        }
    }

    /// The lifetime is a text.
    fn session(&self, token: &str, lifetime: Duration) -> SimulatedReply {
        let seconds = lifetime.as_secs().to_string();
        SimulatedReply::json(
            200,
            &json!({ "token_type": "bearer", "access_token": token, "expires_in": seconds }),
        )
    }

    fn accepted(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        self.status(order, says)
    }

    fn duplicate(&self, _: &ReceivedPayment) -> SimulatedReply {
        refusal(200, "DP00900001011", Some("521050"))
    }

    fn status(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
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
                "with-numbers" => SimulatedReply::json(
                    200,
                    &json!({ "data": [], "status": {
                        "response_code": code, "code": 400, "success": false, "result_code": 521002, "message": "Said by the script.",
                    } }),
                ),
                "by-result" => SimulatedReply::json(
                    200,
                    &json!({ "status": { "result_code": code, "code": "400", "success": false, "message": "Said by the script." } }),
                ),
                _ => gateway(code, "Said by the script."),
            },
            Says::Missing => self.not_found(),
        }
    }

    fn not_found(&self) -> SimulatedReply {
        refusal(200, "DP00900001015", None)
    }

    fn busy(&self) -> SimulatedReply {
        SimulatedReply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> SimulatedReply {
        match code.starts_with("ROUTER") {
            true => SimulatedReply::json(
                status,
                &json!({ "status_message": "Refused by the script.", "status_code": code }),
            ),
            false => refusal(status, code, None),
        }
    }

    /// With commas.
    fn balance(&self, currency: &str, left: &str) -> SimulatedReply {
        let data = json!({ "balance": grouped(left), "currency": currency, "account_status": "Active" });
        said("DP02100001001", data)
    }

    /// A number that ends in 0000 is barred, one in 0001 nobody's.
    fn payee(&self, payee: &str) -> SimulatedReply {
        if payee.ends_with("0001") {
            return refusal(200, "DP02200000000", None);
        }
        let data = json!({
            "first_name": "Example", "last_name": "Payee", "grade": "SUBS", "is_barred": payee.ends_with("0000"),
            "is_pin_set": true, "msisdn": payee, "registration": { "status": "SUCCESS" },
        });
        said("DP02200000001", data)
    }

    fn keys(&self) -> SimulatedReply {
        let der = self.key.to_public_key().to_public_key_der().map(|der| der.as_bytes().to_vec());
        let ends = chrono::Utc::now() + Duration::from_secs(KEY_DAYS * 86_400);
        let data = json!({
            "key_id": "simulated-1", "key": BASE64.encode(der.unwrap_or_default()),
            "valid_upto": ends.format("%Y-%m-%d %H:%M:%S").to_string(),
        });
        said("DP02010001001", data)
    }

    /// Without a transaction; with numbers and an empty list; with the deprecated code alone; in the gateway's envelope.
    fn variants(&self) -> &'static [&'static str] {
        &["bare", "with-numbers", "by-result", "by-gateway"]
    }
}

fn session(asked: &RailRequest) -> Result<Ask, SimulatedReply> {
    let body = Json::read(&asked.body).unwrap_or(Json::Null);
    let right = body.text(&["client_id"]) == Some(CLIENT_ID)
        && body.text(&["client_secret"]) == Some(CLIENT_SECRET)
        && body.text(&["grant_type"]) == Some("client_credentials");
    match right {
        true => Ok(Ask::Session),
        false => Err(SimulatedReply::json(
            400,
            &json!({ "error_description": "Invalid client authentication", "error": "invalid_client" }),
        )),
    }
}

/// Country, currency and token; answers with the currency.
fn authorised(asked: &RailRequest, tokens: &IssuedTokens) -> Result<String, SimulatedReply> {
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
        return Err(SimulatedReply::json(
            403,
            &json!({ "error_description": "The access token is invalid or has expired", "error": "invalid_token" }),
        ));
    }
    asked.header("x-currency").map(ToOwned::to_owned).ok_or_else(|| {
        let message = "Missing request header 'x-wallet-id' for method parameter of type String";
        SimulatedReply::json(
            200,
            &json!({ "status": { "result_code": "ESB000008", "code": "400", "success": false, "message": message } }),
        )
    })
}

/// An answer that is about no payment.
fn said(code: &str, data: Value) -> SimulatedReply {
    let status = json!({ "response_code": code, "code": "200", "success": true, "result_code": "ESB000010", "message": "SUCCESS" });
    SimulatedReply::json(200, &json!({ "data": data, "status": status }))
}

/// `37600.00` as `37,600.00`.
fn grouped(amount: &str) -> String {
    let (whole, decimals) = amount.split_once('.').unwrap_or((amount, "00"));
    let from_the_end: Vec<char> = whole.chars().rev().collect();
    let groups: Vec<String> = from_the_end.chunks(3).map(|group| group.iter().collect()).collect();
    let whole: String = groups.join(",").chars().rev().collect();
    format!("{whole}.{decimals}")
}

fn gateway(code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(400, &json!({ "status_message": message, "status_code": code }))
}

/// A failure without a transaction.
fn refusal(status: u16, code: &str, result_code: Option<&str>) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({ "status": {
            "response_code": code, "code": "400", "success": false,
            "result_code": result_code.unwrap_or("ESB000011"), "message": "Transaction failed.",
        } }),
    )
}

fn envelope(code: &str, transaction: Value) -> SimulatedReply {
    let success = code == SUCCESS;
    SimulatedReply::json(
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
fn transaction(order: &ReceivedPayment, status: &str, paid: Option<&str>) -> Value {
    let mut transaction = json!({ "id": order.key, "status": status, "message": "Said by the simulator." });
    if let Some(paid) = paid {
        transaction["reference_id"] = json!(paid);
        transaction["airtel_money_id"] = json!(format!("disbursement-SIM-{}", order.key));
    }
    transaction
}
