// Publishes CloudEvents with the JavaScript SDK in all three modes, and reads a feed with it.
// Usage: node client.cjs FEED < EVENTS: a JSON array. Prints the events of the feed as the SDK has read them.
"use strict";
const { CloudEvent, emitterFor, HTTP, httpTransport, Mode } = require("cloudevents");

const BATCHED = "application/cloudevents-batch+json";

// The SDK does not encode the values of headers, as the HTTP protocol binding (3.1.3.2) demands.
function encodeHeaders(headers) {
  const encode = (text) => text.replace(/[^\x21\x23\x24\x26-\x7e]/gu, (char) => encodeURIComponent(char));
  const encoded = Object.entries(headers).map(([name, value]) => [
    name,
    name.startsWith("ce-") ? encode(String(value)) : value,
  ]);
  return Object.fromEntries(encoded);
}

async function publish(feed, events) {
  const send = httpTransport(feed);
  const emitters = [
    emitterFor(send, { mode: Mode.STRUCTURED }),
    emitterFor((message, options) => send({ ...message, headers: encodeHeaders(message.headers) }, options), {
      mode: Mode.BINARY,
    }),
  ];
  for (const emit of emitters) {
    for (const event of events) {
      checkCount(await emit(event), 1);
    }
  }
  checkCount(await send({ headers: { "content-type": BATCHED }, body: JSON.stringify(events) }), events.length);
}

function checkCount(response, count) {
  if (JSON.parse(response.body).count !== count) {
    throw new Error(`not published: ${response.body}`);
  }
}

async function read(feed) {
  const response = await fetch(`${feed}?n=1&cursor0=_first`, { headers: { accept: BATCHED } });
  return HTTP.toEvent({ headers: Object.fromEntries(response.headers), body: await response.text() });
}

async function main(feed) {
  let input = "";
  for await (const chunk of process.stdin) {
    input += chunk;
  }
  const events = JSON.parse(input).map((each) => new CloudEvent(each));
  await publish(feed, events);
  console.log(JSON.stringify(await read(feed)));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
