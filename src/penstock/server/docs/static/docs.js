// Shows the hub's OpenAPI document with Swagger UI, in the colours that the reader prefers.
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function followColours() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

followColours();
dark.addEventListener("change", followColours);

window.SwaggerUIBundle({
  url: new URL("../openapi.json", document.baseURI).href,
  domNode: document.getElementById("routes"),
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  docExpansion: "list",
  filter: true,
  validatorUrl: null, // Else a server of Swagger's would be asked whether the document is valid.
});
