// Texts that are difficult for speech synthesis.

export const DIFFICULT_TEXTS = [
  {
    name: "Markdown",
    text: "# Release notes\n\nThis is **bold**, this is *italic*, and `code` stays a word.\n\n- First, we [fixed the parser](https://example.org/parser).\n- Then we tested it.\n\n> This line is a quotation.",
  },
  {
    name: "Numbers",
    text: "The bill is $1,234.56, due on 03/04/2027 at 5:30 p.m. That is 12.5% more than in 1999, for the 21st time. Call 555-0199, room 4B, and add ½ cup of sugar. It weighs 3.5 kg, at −4 °C.",
  },
  {
    name: "Abbreviations",
    text: "Dr. Smith lives at 12 St. James St., approx. 3 mi. from the U.S. embassy, e.g. by bus no. 7. Mr. O'Neil et al. disagreed, vs. Prof. Lee, Ph.D. So? Yes... no! Well—perhaps.",
  },
  {
    name: "Emoji",
    text: "That went well 🎉🎉. We are a family 👩‍👩‍👧‍👦, with a flag 🏳️‍🌈 and a thumb 👍🏽. 🙂 Now the next sentence.",
  },
  {
    name: "Links",
    text: "Read https://example.org/a/very/long/path?with=queries&and=more#anchors before you write to jane.doe@example.org. The file is at /usr/local/bin, version 1.10.2-beta.",
  },
  {
    name: "Code",
    text: "To begin, run this:\n\n```python\nfor i in range(3):\n    print(f\"{i}: not to be read aloud\")\n```\n\nThen look at the result. The function `max()` returns the greater one.",
  },
  {
    name: "Thoughts and tags",
    text: "<think>This part must not be spoken.</think>Here is the answer. <speak>It is <emphasis>forty-two</emphasis>, <break time=\"1s\"/> as always.</speak> Is 3 < 5 and 7 > 2? It is.",
  },
  {
    name: "One long sentence",
    text: "The service accepts a connection from each client, reads the text in small pieces as the language model writes it, waits until a sentence is complete, sends that sentence to the engine, encodes the audio in the format that the client has asked for, and measures, for every packet that leaves the server, how many milliseconds of audio the listener still has in the buffer.",
  },
  {
    name: "Short sentences",
    text: "No. Yes. Go. Stop. Why? Because. I see. Do you? I do. Oh! Good. Bye.",
  },
  {
    name: "Unusual characters",
    text: "“Is it?” she asked — ‘quite’ (and only quite) … «sure»; naïve café, Zoë’s façade, Łódź, Ångström. ﬁne ﬂour. ＦＵＬＬ ＷＩＤＴＨ. A zero\u200bwidth space. !!! ??? ...",
  },
  {
    name: "Tongue twister",
    text: "The sixth sick sheikh's sixth sheep's sick. She sells sea shells, though through tough thorough thought. I read what I had read, close to the close, and wound the wound.",
  },
];
