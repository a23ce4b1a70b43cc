"""Names of fields that hold personal data, and names that only look so.

A dot leads into an object: `customer.name` is the field `name` of `customer`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.definitions.definition import read_definitions
from penstock.schema.guidelines import check
from penstock.schema.guidelines.personal_data import entity_of, personal_kind
from penstock.schema.guidelines.personal_data_terms import KINDS, SOURCES
from tests.docs.examples import ROOT, blocks
from tests.unit.schema.guidelines.definitions import BUSINESS, TEXT, described

PERSONAL = {
    "contact": """
        email eMail E_MAIL customerEmailAddress emails contact_email_work email2 customer.email mail_address
        phone telephone_number mobileNumber phoneNo homePhone phone_2 fax msisdn tel cell_phone passenger.phone
        Telefonnummer handynummer e_post epostadresse mobilnr courriel numero_telephone adresseMail correo_electronico
        teléfono numeroMovil celular numero_di_telefono cellulare telemovel telefoonnummer gsmNummer mobilnummer
        store_manager_phone numero_de_telefone phone_e164 telefono_casa tlf_nr emailadres telephone_client
    """,
    "name": """
        first_name firstName firstname LAST_NAME lastname surname givenName family_name middle_name maidenName
        full_name
        userName username nickname customer_name customerName passenger_full_name employee_display_name driver.name
        customer.name customers.name passengerInfo.name user.details.name recipient.name recipientName contact_name
        billing_address.name ship_to.name guest.legal_name debtorName billing_details.name next_of_kin_name
        user.screen_name
        vorname nachname Familienname geburtsname kunde.name mitarbeitername kundenName
        prénom prenom nom_de_famille nomFamille nom_client client.nom passager.nom
        apellido primerApellido apellidos nombre_cliente nombre_del_cliente pasajero.nombre nombre_completo
        cognome nome_cliente utente.nome sobrenome nome_da_mãe nome_completo passageiro.nome
        voornaam achternaam tussenvoegsel klant.naam klantnaam
        fornavn etternavn efternavn kunde.navn förnamn efternamn kund.namn
    """,
    "birth": """
        dob DoB date_of_birth dateOfBirth birth_date birthdate birthday birthYear place_of_birth birth.date
        geburtsdatum Geburtsort date_naissance dateDeNaissance fecha_nacimiento lugar_de_nacimiento data_nascita
        dataNascimento geboortedatum fødselsdato foedselsdato fodselsdato födelsedatum
    """,
    "bank": """
        iban IBAN IBANNumber customer_iban bank_account bankAccountNumber account_number accountNo account.number
        kontonummer bankverbindung kontoinhaber numero_compte rib cuenta_bancaria numeroCuenta conto_corrente
        conta_bancaria rekeningnummer bankRekening
    """,
    "card": """
        credit_card creditCardNumber card_number cardNumber card.number cvv cvc2 cardholder_name cardHolder
        card_expiry
        kreditkartennummer kreditkarte carte_bancaire numeroCarte tarjeta_credito numero_de_tarjeta carta_di_credito
        cartão_de_crédito numero_cartao creditcardnummer kortnummer
    """,
    "identity": """
        passport passportNumber passport_no passport.number ssn SSN socialSecurityNumber national_id id_card_number
        driver_license driversLicenseNumber driving_licence national_insurance_number nhsNumber tax_number
        personalausweisnummer reisepass fuehrerschein führerscheinnummer sozialversicherungsnummer steuerId
        passeport numero_passeport carte_identite numeroSecuriteSociale permis_de_conduire dni pasaporte nie
        codice_fiscale codiceFiscale carta_d_identita cpf bilhete_de_identidade bsn rijbewijsnummer
        fødselsnummer fodselsnummer foedselsnummer fodselsnr personnummer cprNummer koerekort person.id_number
        numero_documento_cliente
    """,
    "address": """
        address addresses address_line_1 addressLine2 homeAddress street streetName house_number customer.address
        postal_code zipCode postcode shipping_address deliveryAddress billing_address address1 recipient.postal_code
        adresse anschrift strasse Straße hausnummer plz lieferadresse rue code_postal adresseLivraison
        direccion domicilio calle codigoPostal indirizzo residenza endereco morada adres straat huisnummer
        gateadresse postnummer gatuadress leveransadress user.street hausnr huisnr direccion_envio
        adresse_postale indirizzo_di_spedizione customer.file.address zip user.zip
    """,
    "location": "user_latitude driverLon customer.lat passenger.longitude rider_geolocation",
    "device": """
        ip ipAddress client_ip IPAddress remote_addr source_ip ipv4 ipV6Address user_ip adresse_ip direccionIp
        mac_address macAddr device_id deviceId device.id devices.imei imei IMSI idfa advertising_id cookie_id
        device_fingerprint browserFingerprint push_token geraete_id
    """,
}

NOT_PERSONAL = """
    name product_name productName carrier_name airport_name airport.name airline.name carrier.name product.name
    event_name eventName hostname host_name fileName file.name class_name tableName brand.name names column_names
    display_name displayName legal_name customer_company_name customer.company.name customer_segment_name
    user_group_name user_group.name group.name team_name role.name userRole.name city_name country.name rename renamed
    name_prefix name_count username_length first_name_required customer.order.name nombre_producto nom_produit
    producto.nombre produit.nom prodotto.nome nome_prodotto productnaam produktnavn filnavn city.name station.namn
    product_family_name font_family_name repository.full_name project_full_name db_username plan.nickname screen_name
    billing_plan_name shipping_method.name
    order_id flight_number flightNumber customer_id user_id userId passenger_id order_number invoice_number
    tracking_number serial_number version number id key code sku ean gtin
    email_template email_template_id emailSentAt email_verified emailed email_count email_domain mailing_list_id
    has_email is_email_verified send_email support_email company_email store.email supplier.email
    phone_model phone_verified phoneType headphones telemetry hotel mobile mobileApp telecom cellar cell cell_id mail
    hotel_phone store.phone store.details.fax support_phone supportHotlinePhone fax_machine_model telefonie_anbieter
    address_id addressType address_count addressed ip_address_family email_address_hash memory_address server_address
    airport.address warehouse_address warehouse.location.address store.postal_code web_address wallet_address
    contract_address bindAddress company_address depot.street shop.zip store.address.street peer_address street_view
    streetlight postage zip_file unzip
    archive.zip archiveZip backup.zip release_zip attachment.zip download.zip archivo.zip
    smtp.address smtpAddress smtp_address imap.addr dns.address ftp.ip mqtt_address kafka.address jdbc.addresses
    city country region state locality
    latitude longitude lat lon lng airport.lat station_longitude coordinates vehicle.location weather.location
    birth_rate births place_id date order_date dateOfDelivery newborn
    bank_id bank.name bank_code account_id accountType account account_status company_iban supplier.iban
    ledger iban_country ibanez_model caliban
    card_type cardType payment_card_type card card_id gift_card_number giftCard.number discard dashboard_card
    payment_method credit credit_limit
    id_number document_number passport_required has_passport passport_office passport_country requiresPassport license
    license_key
    driver_version driver_id ssn_valid classname session social_media identity_provider identityProviderId
    ip_version ipCount ship vip zip_ratio server_ip host_ip pod.ip gateway.ip loadBalancerIp skip recipe
    tip script_address_space device device_type deviceModel device_count sensor_device_id printer.mac_address macro
    stomach machine_learning user_agent cookie cookies_accepted
    tailnum carrier origin dest faa tzone total_cents currency quantity amount price status created_at
    rib_count_total ribbon
"""


def field(path: str) -> tuple[str, list[str]]:
    """Return the name of the field at *path*, and its owners, from the nearest on."""
    *owners, name = path.split(".")
    return name, owners[::-1]


@pytest.mark.parametrize("kind", PERSONAL)
def test_names_of_personal_data_are_recognized(kind: str) -> None:
    found = {path: personal_kind(*field(path)) for path in PERSONAL[kind].split()}

    assert {path: each and each.id for path, each in found.items()} == dict.fromkeys(found, kind)


def test_names_of_other_data_are_not_taken_for_personal() -> None:
    found = {path: each.id for path in NOT_PERSONAL.split() if (each := personal_kind(*field(path)))}

    assert found == {}


def test_tables_of_names_are_long_and_cover_every_kind() -> None:
    assert sum(len(set(names.split())) for names in PERSONAL.values()) >= 150
    assert len(set(NOT_PERSONAL.split())) >= 150
    assert PERSONAL.keys() == {kind.id for kind in KINDS}


def test_every_kind_cites_sources_on_the_web() -> None:
    assert {source for kind in KINDS for source in kind.sources} == SOURCES.keys()
    assert all(kind.sources for kind in KINDS)
    assert all(address.startswith("https://") for _, address in SOURCES.values())


@pytest.mark.parametrize(
    ("event_type", "entity"),
    [
        ("customers", "customers"),
        ("shop.customer-registered", "customer"),
        ("user.signed_up", "user"),
        ("crm.customer.changed.v2", "customer"),
        ("customer.order.placed", "order"),
        ("user-groups", "groups"),
        ("flights.airlines", "airlines"),
        ("created", "created"),
        ("", ""),
    ],
)
def test_last_noun_of_an_event_type_is_its_entity(event_type: str, entity: str) -> None:
    assert entity_of(event_type) == entity


def broken(event_type: str = "sales.order-placed", /, definitions: Any = None, **properties: Any) -> list[str]:
    """Return where an event type with these fields breaks the guideline."""
    schema = {"properties": properties} | ({"definitions": definitions} if definitions else {})
    findings = check(BUSINESS | {"name": event_type, "schema": described(schema)})
    return [each.pointer for each in findings if each.rule.id == "personal-data"]


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


REFERENCE = {"$ref": "#/definitions/party"}
PARTY = {"party": object_of(name=TEXT, phone=TEXT)}
NAME, PHONE = "#/definitions/party/properties/name", "#/definitions/party/properties/phone"


def test_name_belongs_to_the_object_that_it_lies_in() -> None:
    named = {each: object_of(name=TEXT) for each in ("customer", "person", "user", "passenger", "employee")}
    things = {each: object_of(name=TEXT) for each in ("product", "airline", "airport", "event", "host", "device")}

    assert broken(**named, **things) == [f"#/properties/{each}/properties/name" for each in named]
    assert broken(guests={"type": "array", "items": object_of(name=TEXT)}) == [
        "#/properties/guests/items/properties/name"
    ]


def test_name_belongs_to_the_entity_of_the_event_type() -> None:
    assert broken("crm.customers", name=TEXT) == ["#/properties/name"]
    assert broken("user.registered", name=TEXT) == ["#/properties/name"]
    assert broken("customer.order.placed", name=TEXT) == []
    assert broken("shop.stores", name=TEXT, phone=TEXT, address=TEXT) == []


def test_definition_belongs_to_its_name_or_else_to_the_fields_that_refer_to_it() -> None:
    assert broken(definitions=PARTY, airline=REFERENCE) == []
    assert broken(definitions=PARTY, airline=REFERENCE, customer=REFERENCE) == [NAME, PHONE]
    customer = {"$ref": "#/definitions/Customer"}
    assert broken(definitions={"Customer": object_of(name=TEXT)}, who=customer) == [
        "#/definitions/Customer/properties/name"
    ]


def test_object_is_reported_without_its_parts() -> None:
    address = object_of(street=TEXT, postal_code=TEXT, phone=TEXT)

    assert broken(address=address) == ["#/properties/address", "#/properties/address/properties/phone"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "boolean"},
        {"type": ["boolean", "null"]},
        {"enum": ["home", "work"]},
        {"type": "string", "const": "none"},
    ],
)
def test_field_with_fixed_values_holds_no_personal_data(schema: dict[str, Any]) -> None:
    assert broken(address=schema, phone=schema) == []


def test_number_of_things_is_no_personal_data() -> None:
    count = {"type": "integer"}

    assert broken(emails=count, passports=count, phone=count) == ["#/properties/phone"]


@pytest.mark.parametrize("format", ["email", "idn-email", "IPv4", "ipv6"])
def test_format_of_personal_data_is_recognized_without_a_name(format: str) -> None:
    value = TEXT | {"format": format}

    assert broken(reach=value, many={"items": value}, server=value) == ["#/properties/reach", "#/properties/many"]


def test_name_of_very_many_words_is_ignored() -> None:
    assert personal_kind("address_" * 100_000, ["airport_" * 100_000]) is None


def definitions_shown() -> Iterator[Any]:
    """Yield the files of the demo, and the definitions in the documentation."""
    yield from sorted((ROOT / "src/penstock_demo/event_types").glob("*.yaml"))
    for page in sorted((ROOT / "docs").rglob("*.md")):
        yield from (block.text for block in blocks(page) if block.language == "yaml" and "\nschema:" in block.text)


def test_event_types_of_the_demo_and_the_documentation_hold_no_personal_data(tmp_path: Any) -> None:
    files = []
    for number, each in enumerate(definitions_shown()):
        path = each if not isinstance(each, str) else tmp_path / f"{number}.yaml"
        if isinstance(each, str):
            path.write_text(each)
        files.append(path)
    found, wrong = read_definitions(files)

    assert not wrong
    assert len(found) >= 9
    assert [str(each) for one in found for each in check(one.value) if each.rule.id == "personal-data"] == []
