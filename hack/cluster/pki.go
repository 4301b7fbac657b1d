// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// validity is longer than the lifetime of any cluster.
const validity = 365 * 24 * time.Hour

// keyPair is a private key and its certificate, both PEM-encoded.
type keyPair struct {
	certificate, key []byte
}

// authority is a certificate authority.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	template := newTemplate(pkix.Name{CommonName: name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, key, err := sign(template, template, nil)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{keyPair: pair, parsed: parsed, signer: key}, nil
}

// issueServer issues a certificate for a server on 127.0.0.1 with additional names and addresses. It is a client certificate
// as well, because etcd peers are both.
func (a *authority) issueServer(names []string, addresses ...net.IP) (keyPair, error) {
	template := newTemplate(pkix.Name{CommonName: "localhost"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	pair, _, err := sign(template, a.parsed, a.signer)
	return pair, err
}

// issueClient issues a client certificate that authenticates the user and its groups to Kubernetes.
func (a *authority) issueClient(user string, groups ...string) (keyPair, error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	pair, _, err := sign(template, a.parsed, a.signer)
	return pair, err
}

// clientConfig returns the configuration of a client that authenticates with the pair and trusts this authority only.
func (a *authority) clientConfig(pair keyPair) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(pair.certificate, pair.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.parsed)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}, nil
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails since Go 1.24
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // tolerates a clock that is set back
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// sign generates a key and signs the template's certificate for it with the parent's signer. The certificate is self-signed
// if signer is nil.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (keyPair, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, nil, err
	}
	if signer == nil {
		signer = key
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, nil, err
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return keyPair{}, nil, err
	}
	return keyPair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encodedKey}),
	}, key, nil
}

// write writes the pair to base.crt and base.key.
func (p keyPair) write(base string) error {
	if err := os.WriteFile(base+".crt", p.certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(base+".key", p.key, 0o600)
}
