"""The kinds of personal data that the name of a field can reveal, and the names by which each is recognised.

This file is data; `personal_data.py` applies it. A name is written in lower case with an underscore between its words.
It stands for every spelling of itself: `birth_date` for `birthDate` and `birthdate`, `straße` for `strasse`,
`führerschein` for `fuehrerschein`, `hausnummer` for `hausnr`. Its plural is found too. English, German, French,
Spanish, Italian, Portuguese, Dutch, Norwegian, Danish and Swedish are covered, as far as a name is common in schemas;
of other languages there are some identity numbers.

The kinds follow the sources that each of them cites. The names are collected from the terms that those sources define,
and from the usual words of each language.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class PersonalDataKind(NamedTuple):
    """One kind of personal data."""

    id: str
    holds: str
    """A description of the data in such a field: the end of a sentence."""
    sources: tuple[str, ...]
    """The keys in `SOURCES` of the documents that call it personal, or define its terms."""
    always: str = ""
    """Names that stand for it wherever they appear."""
    unless_of_things: str = ""
    """Names that stand for it unless it belongs to an organisation or a thing, as in `airport.address`."""
    of_people: str = ""
    """Names that stand for it only where it belongs to a person, as in `customer.name`."""


SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "zalando": ("Zalando RESTful API Guidelines, Events", "https://opensource.zalando.com/restful-api-guidelines/"),
    "gdpr-4": ("GDPR, article 4 (1)", "https://eur-lex.europa.eu/eli/reg/2016/679/oj"),
    "gdpr-30": ("GDPR, recital 30", "https://eur-lex.europa.eu/eli/reg/2016/679/oj"),
    "hipaa": ("HIPAA, 45 CFR 164.514 (b)(2)", "https://www.ecfr.gov/current/title-45/section-164.514"),
    "presidio": ("Presidio, supported entities", "https://microsoft.github.io/presidio/supported_entities/"),
    "oidc": (
        "OpenID Connect Core 1.0, standard claims",
        "https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims",
    ),
    "person": ("schema.org, Person", "https://schema.org/Person"),
    "postal-address": ("schema.org, PostalAddress", "https://schema.org/PostalAddress"),
    "iban": ("ISO 13616-1", "https://www.iso.org/standard/81090.html"),
    "card": ("PCI Security Standards Council, glossary", "https://www.pcisecuritystandards.org/glossary/"),
    "passport": ("ICAO Doc 9303", "https://www.icao.int/publications/doc-series/doc-9303"),
    "phone": ("ITU-T E.164", "https://www.itu.int/rec/T-REC-E.164"),
    "imei": ("3GPP TS 23.003", "https://www.3gpp.org/dynareport/23003.htm"),
}
"""Public sources: title and address by key."""

KINDS: Final = (
    PersonalDataKind(
        "contact",
        "an e-mail address or a phone number",
        ("zalando", "oidc", "phone", "presidio"),
        unless_of_things="""
            email e_mail email_address mail_address mailaddress courriel adresse_mail adresse_courriel
            correo correo_electronico posta_elettronica indirizzo_mail endereco_email mailadresse mailadres
            emailadresse emailadres emailadress epost e_post epostadresse epostadress epost_adresse
            phone telephone phone_number mobile_number mobile_no mobile_nr cell_number mobile_phone cell_phone
            tel tlf fax msisdn whatsapp_number
            telefon telefonnummer tlf_nummer mobiltelefon mobilnummer mobiltelefonnummer handynummer rufnummer
            faxnummer numero_telephone numero_de_telephone numero_portable telephone_portable telecopie
            teléfono número_teléfono número_de_teléfono número_móvil celular numero_telefono numero_di_telefono
            cellulare numero_cellulare telefone número_telefone número_de_telefone telemóvel telemovel
            telefoon telefoonnummer mobiel_nummer gsm_nummer gsm_number
        """,
    ),
    PersonalDataKind(
        "name",
        "a person's name",
        ("gdpr-4", "oidc", "person", "hipaa"),
        always="""
            first_name firstname fname given_name forename last_name lastname lname surname middle_name maiden_name
            birth_name patronymic
            vorname nachname familienname zuname rufname geburtsname mädchenname kundenname benutzername nutzername
            mitarbeitername passagiername patientenname fahrername
            prénom nom_famille nom_de_famille nom_usage nom_naissance nom_de_naissance nom_jeune_fille
            nom_de_jeune_fille nom_utilisateur
            apellido primer_apellido segundo_apellido apellido_paterno apellido_materno nombre_pila nombre_de_pila
            primer_nombre segundo_nombre
            cognome sobrenome apelido primeiro_nome último_nome nome_mãe nome_da_mãe nome_pai nome_do_pai nome_social
            voornaam achternaam familienaam tussenvoegsel roepnaam meisjesnaam voorletters klantnaam gebruikersnaam
            fornavn etternavn efternavn mellomnavn mellemnavn pikenavn kundenavn brukernavn brugernavn
            förnamn efternamn mellannamn tilltalsnamn kundnamn användarnamn
        """,
        unless_of_things="""
            full_name fullname family_name nick_name nickname user_name username
            nombre_completo nome_completo nom_complet volledige_naam fullt_navn fulde_navn fullständigt_namn
        """,
        of_people="""
            name display_name legal_name screen_name nom nombre nome naam navn namn anzeigename
        """,
    ),
    PersonalDataKind(
        "birth",
        "a date or a place of birth",
        ("hipaa", "oidc", "person"),
        always="""
            dob date_of_birth birth_date birthdate birthday birth_day year_of_birth birth_year month_of_birth
            place_of_birth birth_place birthplace city_of_birth birth_city born_on
            geburtsdatum geburtstag geburtsort geburtsjahr geburtsstadt
            date_naissance date_de_naissance date_naiss lieu_naissance lieu_de_naissance année_naissance
            ville_naissance
            fecha_nacimiento fecha_de_nacimiento fecha_nac lugar_nacimiento lugar_de_nacimiento
            data_nascita data_di_nascita luogo_nascita luogo_di_nascita comune_nascita
            data_nascimento data_de_nascimento data_nasc dt_nascimento dt_nasc local_nascimento local_de_nascimento
            naturalidade
            geboortedatum geboorteplaats geboortejaar
            fødselsdato fødselsdag fødested fødselsår födelsedatum födelsedag födelseort födelseår
        """,
    ),
    PersonalDataKind(
        "bank",
        "a bank account",
        ("iban", "presidio", "hipaa"),
        always="account_holder account_holder_name kontoinhaber kontoinhaber_name titulaire_compte titulaire_du_compte",
        unless_of_things="""
            iban bank_account bank_account_number account_number account_no account_nr bban
            kontonummer bankkonto bankkontonummer bankverbindung
            compte_bancaire numero_compte numéro_de_compte rib
            cuenta_bancaria número_cuenta número_de_cuenta
            conto_corrente conto_bancario numero_conto numero_di_conto
            conta_bancária conta_corrente número_conta número_da_conta
            bankrekening rekeningnummer bankrekeningnummer
        """,
    ),
    PersonalDataKind(
        "card",
        "a payment card's number or holder",
        ("card", "presidio"),
        always="""
            card_holder cardholder card_holder_name name_on_card cvv cvv2 cvc cvc2 card_verification_value
            card_verification_code card_security_code primary_account_number card_pan pan_number
            karteninhaber kaarthouder kortholder kortinnehavare titular_tarjeta titulaire_carte intestatario_carta
        """,
        unless_of_things="""
            credit_card debit_card payment_card bank_card card_number card_no card_nr card_expiry card_expiration
            card_expiry_date card_expiration_date
            kreditkarte kreditkartennummer kartennummer bankkarte
            carte_bancaire carte_crédit carte_de_crédit numéro_carte numéro_de_carte
            tarjeta_crédito tarjeta_de_crédito tarjeta_débito número_tarjeta número_de_tarjeta
            carta_credito carta_di_credito numero_carta numero_della_carta
            cartão_crédito cartão_de_crédito número_cartão número_do_cartão
            creditcard creditcardnummer kaartnummer kredittkort kreditkort kortnummer kredittkortnummer
            kreditkortnummer
        """,
    ),
    PersonalDataKind(
        "identity",
        "an identity document or a person's official number",
        ("gdpr-4", "passport", "presidio", "hipaa"),
        always="""
            passport passport_number ssn social_security social_security_number social_insurance_number
            national_insurance national_insurance_number national_id national_identifier national_id_number
            national_identity_number
            national_identification_number identity_card id_card identity_document id_document identity_number
            id_document_number id_card_number identity_card_number personal_identity_number
            personal_identification_number citizen_id government_id
            driver_license drivers_license driving_license driver_licence drivers_licence driving_licence
            taxpayer_id taxpayer_identification_number itin nhs_number medicare_number health_insurance_number
            residence_permit visa_number aadhaar aadhar pesel hetu henkilötunnus
            personalausweis personalausweisnummer ausweisnummer reisepass reisepassnummer passnummer
            sozialversicherungsnummer rentenversicherungsnummer versichertennummer krankenversichertennummer
            steuer_id steueridentifikationsnummer führerschein führerscheinnummer ahv_nummer
            passeport carte_identité carte_d_identité carte_nationale_identité numéro_sécurité_sociale numéro_sécu
            num_sécu
            sécurité_sociale numéro_de_sécurité_sociale permis_conduire permis_de_conduire titre_séjour
            titre_de_séjour cni
            dni nie pasaporte documento_identidad documento_de_identidad número_seguridad_social seguridad_social
            carnet_conducir permiso_conducir carnet_de_conducir permiso_de_conducir curp cédula_identidad
            cédula_de_identidad
            codice_fiscale cod_fiscale passaporto carta_identità carta_d_identità patente patente_guida
            patente_di_guida
            tessera_sanitaria
            cpf passaporte cartão_cidadão cartão_de_cidadão bilhete_identidade bilhete_de_identidade cnh
            título_eleitor
            carta_condução carta_de_condução número_segurança_social
            bsn burgerservicenummer paspoort paspoortnummer rijbewijs rijbewijsnummer identiteitskaart
            rijksregisternummer
            fødselsnummer personnummer førerkort kørekort pasnummer cpr
            körkort samordningsnummer
        """,
        unless_of_things="""
            identification_number tax_number tax_identification_number steuernummer nif numéro_fiscal
        """,
        of_people="id_number id_no document_number numéro_document número_documento numero_documento",
    ),
    PersonalDataKind(
        "address",
        "a postal address",
        ("zalando", "postal-address", "hipaa"),
        always="""
            home_address residential_address wohnort wohnanschrift wohnadresse meldeadresse bostedsadresse woonplaats
            woonadres bopælsadresse hemadress
        """,
        unless_of_things="""
            address addr postal_address street_address mailing_address delivery_address shipping_address
            billing_address
            invoice_address address_line street street_name street_number house_number
            zip zip_code zipcode postal_code postcode post_code
            adresse anschrift straße straßenname hausnummer postleitzahl plz lieferadresse lieferanschrift
            rechnungsadresse rechnungsanschrift
            rue code_postal adresse_de_livraison adresse_de_facturation
            dirección dirección_de_entrega dirección_de_envío domicilio calle código_postal
            indirizzo indirizzo_di_spedizione indirizzo_di_consegna residenza numero_civico codice_postale
            endereço endereço_de_entrega morada rua cep
            adres straat straatnaam huisnummer bezorgadres factuuradres afleveradres
            gateadresse gatenavn vejnavn husnummer postnummer adresselinje leveringsadresse fakturaadresse
            adress adress_rad gatuadress gatunamn leveransadress fakturaadress
        """,
    ),
    PersonalDataKind(
        "location",
        "where a person is",
        ("gdpr-4",),
        of_people="""
            latitude longitude lat lon lng geolocation coordinates current_location gps_location gps_position
        """,
    ),
    PersonalDataKind(
        "device",
        "a person's device or IP address",
        ("gdpr-30", "imei", "presidio"),
        unless_of_things="""
            ip ip_address ip_addr ipv4 ipv6 remote_addr remote_address x_forwarded_for ip_adresse ip_adress ip_adres
            adresse_ip dirección_ip indirizzo_ip endereço_ip
            mac_address mac_addr mac_adresse adresse_mac dirección_mac
            device_id device_identifier device_uuid device_fingerprint device_token device_serial_number push_token
            imei imsi iccid meid udid idfa idfv gaid aaid advertising_id android_id browser_fingerprint cookie_id
            geräte_id gerätekennung id_appareil identifiant_appareil id_dispositivo apparaat_id enhets_id
        """,
    ),
)
"""All kinds, in the order in which a name is held against them."""

FORMATS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("email", "idn-email", "phone", "phone-number", "e.164"), "contact"),
    **dict.fromkeys(("ipv4", "ipv6"), "device"),
}
"""The kind that a schema's `format` stands for."""

PEOPLE: Final = """
    person people customer client user passenger traveller traveler employee worker colleague patient guest driver
    rider member contact recipient receiver sender consignee addressee buyer purchaser shopper visitor student
    pupil teacher doctor physician nurse author applicant candidate beneficiary payee payer insured
    policyholder holder landlord resident citizen parent mother father spouse child sibling husband wife guardian
    relative victim witness
    manager supervisor crew pilot captain attendee participant donor player caller callee assignee individual human
    debtor creditor kin billing ship_to bill_to sold_to shipping_address billing_address delivery_address
    kunde kunden kundin benutzer nutzer mitarbeiter passagier fahrgast fahrer gast empfänger absender besteller käufer
    versicherter versicherte inhaber ansprechpartner schüler mieter patienten
    personne utilisateur passager employé salarié conducteur chauffeur destinataire expéditeur acheteur titulaire
    assuré voyageur adhérent abonné
    cliente persona usuario pasajero empleado paciente huésped conductor destinatario remitente comprador titular
    beneficiario viajero trabajador alumno
    utente passeggero dipendente paziente ospite conducente autista mittente acquirente titolare intestatario
    viaggiatore
    pessoa usuário utilizador passageiro funcionário empregado hóspede motorista destinatário aluno
    klant persoon gebruiker werknemer medewerker patiënt bestuurder ontvanger afzender koper reiziger
    bruker bruger passasjer ansatt ansat medarbejder medarbeider pasient gjest gæst mottaker modtager avsender
    afsender kund användare passagerare anställd medarbetare mottagare avsändare köpare
"""
"""Owners that are persons: a name that belongs to one of them is personal data."""

THINGS: Final = """
    company organisation organization corporate corporation enterprise firma unternehmen entreprise société empresa
    azienda società bedrijf selskap virksomhed företag
    airline airport carrier flughafen aéroport aeropuerto aeroporto store shop branch warehouse depot hub station
    terminal plant factory facility hotel restaurant venue building site port school university hospital clinic
    pharmacy bank merchant vendor supplier manufacturer brand provider partner agency authority museum library stadium
    support helpdesk helpline hotline service
    server host node pod cluster gateway router proxy switch interface listener bind listen broker balancer loopback
    network subnet socket endpoint peer local container instance machine virtual memory register contract wallet web
    website database db schema queue bucket function repository repo project
    smtp imap pop3 dns ftp sftp ldap ntp dhcp mqtt amqp kafka jdbc
    archive directory attachment download upload backup bundle artifact asset release
    archiv archivo arquivo
    product item price plan font series gift sim key graphics sd sensor meter printer scanner camera thermostat
    vehicle aircraft equipment
"""
"""Owners that are no persons, though they may have an address, a phone or an account."""

STILL: Final = """
    address addresses number numbers nummer numero número no nr num value values text string str list line lines full
    primary secondary home work private business contact main default official new old current previous original
    normalized normalised raw mobile e
    casa trabajo fijo móvil portable fixe domicile personnel professionnel livraison facturation envío entrega
    cobrança spedizione consegna fatturazione postal postale residencial comercial
"""
"""Words after which a name stands for the same thing; after any other word, as in `email_template`, it does not."""

ABOUT: Final = """
    is has have had can may should must with without requires require required needs need allow allows allowed accept
    accepts send sends verify verified show hide enable enabled disable disabled use uses count total max min avg
    number_of count_of
"""
"""First words of names that say something about personal data and hold none, as in `has_passport`."""

OF: Final = "of the de du des d la le l del della dello di da do dos das van von der av af"
"""Words between a name and whose name it is, as in `nombre_del_cliente`."""

TRANSPARENT: Final = """
    info infos information details detail data record profile object payload dto entity list value values personal
    identity attributes properties new old before after current previous snapshot primary secondary location address
    addresses adresse adres adress anschrift dirección indirizzo endereço
    datos données dati dados daten gegevens
"""
"""Words that may stand between a field and its owner, as in `customer.details.name`."""

HAPPENINGS: Final = """
    change changes event events update updates log stream feed v up in out off signup registration creation deletion
"""
"""Words that may follow the entity in an event type's name, beside numbers and words that end with `ed`."""
